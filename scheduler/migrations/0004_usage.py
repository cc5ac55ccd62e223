from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0003_oncall'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='jobevent',
            index=models.Index(condition=models.Q(('kind', 'release')), fields=['-at'], name='event_of_releases'),
        ),
    ]
